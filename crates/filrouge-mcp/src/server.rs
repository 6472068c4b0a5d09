//! The MCP server: implements the methods of the protocol with the tools, prompts and resources of this crate.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use http::request::Parts;
#[expect(deprecated, reason = "older generations ask for it")]
use rmcp::model::SetLevelRequestParams;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestParams, CompleteResult,
    CompletionInfo, ContentBlock, ErrorCode, ErrorData, GetPromptRequestParams, GetPromptResponse,
    Implementation, InitializeResult, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, Reference, ServerCapabilities, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};

use crate::call::{BlockingPool, Call, Corpus, Histories, Own};
use crate::http::OfCaller;
use crate::refusal::Refusal;
use crate::tools::Answered;
use crate::{prompts, resources, tools};

/// The instructions for the agent's model, which the client receives when it connects.
const INSTRUCTIONS: &str = include_str!("instructions.md");

/// Answers agents' queries about histories. Cheap to clone; keeps no state between calls.
#[derive(Clone)]
pub struct McpServer {
    histories: Histories,
    own: Arc<Own>,
    pool: BlockingPool,
}

impl McpServer {
    /// Creates a server for `histories`. `own` describes the session of the agent that calls it.
    #[must_use]
    pub fn new(histories: Histories, own: Own) -> Self {
        Self {
            histories,
            own: Arc::new(own),
            pool: BlockingPool::new(),
        }
    }

    /// The histories that this call may read.
    ///
    /// # Errors
    /// [`Refusal`] `internal` if the HTTP layer did not add them to the request.
    fn corpus(&self, context: &RequestContext<RoleServer>) -> Result<Corpus, Refusal> {
        match &self.histories {
            Histories::All(corpus) => Ok(Corpus::clone(corpus)),
            Histories::OfCaller => {
                let parts = context.extensions.get::<Parts>();
                let found = parts.and_then(|parts| parts.extensions.get::<OfCaller>());
                found.map(|OfCaller(corpus)| corpus.clone()).ok_or_else(|| {
                    Refusal::new(
                        "internal",
                        "the call has no caller",
                        "this is a fault of filrouge",
                    )
                })
            }
        }
    }

    /// Runs `work` on a blocking thread, until it ends or the client cancels the call. `tool` is the name of the tool,
    /// or `resources`.
    async fn call<T: Send + 'static>(
        &self,
        context: RequestContext<RoleServer>,
        tool: &'static str,
        work: impl FnOnce(&Call<'_>) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let Corpus { library, searcher } = self.corpus(&context)?;
        let own = self.own.clone();
        let work = move |stopped: &Arc<AtomicBool>| {
            // This library lists each source at most once for the call, however often the call needs the list.
            let library = library.for_one_query(Some(stopped.clone()));
            let call = Call {
                library: &library,
                searcher: &searcher,
                own: &own,
                tool,
                stopped,
            };
            work(&call)
        };
        self.pool.answer(context.ct.cancelled(), work).await
    }
}

/// A refusal as an error of the protocol, for methods other than `tools/call`, whose results cannot contain a refusal.
fn fault(refusal: Refusal) -> ErrorData {
    let data = serde_json::to_value(&refusal).ok();
    match refusal.code {
        "session_not_found" => ErrorData::resource_not_found(refusal.message, data),
        "internal" => ErrorData::internal_error(refusal.message, data),
        _ => ErrorData::invalid_params(refusal.message, data),
    }
}

/// A refusal as the result of a tool, which the model reads.
fn refused(refusal: &Refusal) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(refusal.text())])
}

fn answered(answer: Answered) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(answer.text)]);
    result.structured_content = Some(answer.structured);
    result
}

/// Refuses a request for a second page, for lists that have a single page.
fn one_page(request: Option<PaginatedRequestParams>) -> Result<(), ErrorData> {
    match request.and_then(|request| request.cursor) {
        None => Ok(()),
        Some(_) => Err(ErrorData::invalid_params("there is only one page", None)),
    }
}

impl ServerHandler for McpServer {
    fn get_info(&self) -> InitializeResult {
        let capabilities = ServerCapabilities::builder()
            .enable_completions()
            .enable_prompts()
            .enable_resources()
            .enable_tools()
            .build();
        let this = Implementation::new("filrouge", env!("CARGO_PKG_VERSION"))
            .with_title("filrouge")
            .with_description("Recorded sessions of coding agents, to search and to read");
        InitializeResult::new(capabilities)
            .with_server_info(this)
            .with_instructions(INSTRUCTIONS)
    }

    /// Accepts every log level and ignores it: logs go to the process's stderr, never to the client. The server does
    /// not announce that it sends logs, but clients of older versions of the protocol may send this request.
    #[expect(deprecated, reason = "older generations ask for it")]
    async fn set_level(
        &self,
        _: SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        one_page(request)?;
        let all = tools::ALL.iter().map(|tool| tool.described.clone());
        Ok(ListToolsResult::with_all_items(all.collect()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::named(name).map(|tool| tool.described.clone())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = tools::named(&request.name) else {
            let known: Vec<&str> = tools::ALL.iter().map(|tool| tool.name).collect();
            let (name, known) = (&request.name, known.join(", "));
            let message = format!("there is no tool {name:?}; there are: {known}");
            return Err(ErrorData::invalid_params(message, None));
        };
        let given = request.arguments.unwrap_or_default();
        let answer = self
            .call(context, tool.name, move |call| tool.run(call, given))
            .await;
        Ok(match answer {
            Ok(answer) => answered(answer).into(),
            Err(refusal) => refused(&refusal).into(),
        })
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        one_page(request)?;
        Ok(ListPromptsResult::with_all_items(prompts::all()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        if request.name != prompts::RECALL {
            let name = request.name;
            let message = format!("there is no prompt {name:?}; there is: recall");
            return Err(ErrorData::invalid_params(message, None));
        }
        let prompt = prompts::recall(request.arguments).map_err(fault)?;
        Ok(prompt.into())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        let page = move |call: &Call<'_>| resources::page_of_sessions(call, cursor);
        self.call(context, "resources", page).await.map_err(fault)
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        one_page(request)?;
        let all = vec![resources::template()];
        Ok(ListResourceTemplatesResult::with_all_items(all))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let read = move |call: &Call<'_>| resources::read(call, &request.uri);
        let contents = self.call(context, "resources", read).await.map_err(fault)?;
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let completes_session = matches!(&request.r#ref, Reference::Resource(reference)
            if reference.uri == resources::TEMPLATE && request.argument.name == resources::ID);
        if !completes_session {
            return Ok(CompleteResult::default());
        }
        let start = request.argument.value;
        let find = move |call: &Call<'_>| Ok(resources::completions(call, &start));
        let (ids, total) = self.call(context, "resources", find).await.map_err(fault)?;
        let more = ids.len() < total;
        let total = u32::try_from(total).ok();
        let completion = CompletionInfo::with_pagination(ids, total, more)
            .map_err(|why| ErrorData::new(ErrorCode::INTERNAL_ERROR, why, None))?;
        Ok(CompleteResult::new(completion))
    }
}
