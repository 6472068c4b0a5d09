//! The MCP server: implements the methods of the protocol with the tools, prompts and resources of this crate.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use http::request::Parts;
#[expect(deprecated, reason = "older versions of the protocol use it")]
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

use crate::call::{BlockingPool, Call, CallerSession, Corpus, Histories};
use crate::http::CallerCorpus;
use crate::refusal::{Refusal, Result};
use crate::{prompts, resources, tools};

/// The instructions for the agent's model, which the client receives when it connects.
const INSTRUCTIONS: &str = include_str!("instructions.md");

/// Answers agents' queries about histories. Cheap to clone; keeps no state between calls.
#[derive(Clone)]
pub struct McpServer {
    histories: Histories,
    caller_session: Arc<CallerSession>,
    pool: BlockingPool,
}

impl McpServer {
    /// Creates a server for `histories`. `caller_session` describes the session of the agent that calls it.
    pub fn new(histories: Histories, caller_session: CallerSession) -> Self {
        Self {
            histories,
            caller_session: Arc::new(caller_session),
            pool: BlockingPool::new(),
        }
    }

    /// Returns the histories that this call may read, and the name of its caller.
    ///
    /// # Errors
    /// [`Refusal`] `internal` if the HTTP layer did not add them to the request.
    fn corpus(&self, context: &RequestContext<RoleServer>) -> Result<CallerCorpus> {
        match &self.histories {
            Histories::Shared(corpus) => Ok(CallerCorpus {
                corpus: Corpus::clone(corpus),
                caller: Default::default(),
            }),
            Histories::PerCaller => {
                let parts = context.extensions.get::<Parts>();
                let caller_corpus = parts.and_then(|parts| parts.extensions.get::<CallerCorpus>());
                let caller_corpus = caller_corpus.cloned();
                caller_corpus.ok_or_else(|| Refusal::fault("the call has no caller"))
            }
        }
    }

    /// Runs `work` on a blocking thread, until it ends or the client cancels the call. `tool` is the name of the tool,
    /// or `resources`.
    async fn call<T: Send + 'static>(
        &self,
        context: RequestContext<RoleServer>,
        tool: &'static str,
        work: impl FnOnce(&Call<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let CallerCorpus { corpus, caller } = self.corpus(&context)?;
        let Corpus {
            library,
            searcher,
            print_pdf,
        } = corpus;
        let caller_session = self.caller_session.clone();
        let work = move |stopped: &Arc<AtomicBool>| {
            // This library lists each source at most once for the call, however often the call needs the list.
            let library = library.for_one_query(Some(stopped.clone()));
            let call = Call {
                library: &library,
                searcher: &searcher,
                print_pdf: print_pdf.as_ref(),
                caller_session: &caller_session,
                tool,
                stopped,
            };
            work(&call)
        };
        self.pool.run(caller, context.ct.cancelled(), work).await
    }
}

/// Converts a refusal to an error of the protocol, for methods other than `tools/call`, whose results cannot contain a
/// refusal.
fn to_error_data(refusal: Refusal) -> ErrorData {
    let data = serde_json::to_value(&refusal).ok();
    match refusal.code {
        "session_not_found" => ErrorData::resource_not_found(refusal.message, data),
        "internal" => ErrorData::internal_error(refusal.message, data),
        _ => ErrorData::invalid_params(refusal.message, data),
    }
}

/// Refuses a request for a second page, for lists that have a single page.
fn refuse_cursor(request: Option<PaginatedRequestParams>) -> Result<(), ErrorData> {
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
        let implementation = Implementation::new("filrouge", env!("CARGO_PKG_VERSION"))
            .with_title("filrouge")
            .with_description("Recorded sessions of coding agents, to search and to read");
        InitializeResult::new(capabilities)
            .with_server_info(implementation)
            .with_instructions(INSTRUCTIONS)
    }

    /// Accepts every log level and ignores it: logs go to the process's stderr, never to the client. The server does
    /// not announce that it sends logs, but clients of older versions of the protocol may send this request.
    #[expect(deprecated, reason = "older versions of the protocol use it")]
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
        refuse_cursor(request)?;
        let all = tools::ALL.iter().map(|tool| tool.description.clone());
        Ok(ListToolsResult::with_all_items(all.collect()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::find(name).map(|tool| tool.description.clone())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = tools::find(&request.name) else {
            let known: Vec<&str> = tools::ALL.iter().map(|tool| tool.name).collect();
            let (name, known) = (&request.name, known.join(", "));
            let message = format!("there is no tool {name:?}; there are: {known}");
            return Err(ErrorData::invalid_params(message, None));
        };
        let arguments = request.arguments.unwrap_or_default();
        let answer = self
            .call(context, tool.name, move |call| tool.run(call, arguments))
            .await;
        let result = match answer {
            Ok(answer) => {
                let mut content = vec![ContentBlock::text(answer.text)];
                content.extend(answer.attachment.map(ContentBlock::resource));
                let mut result = CallToolResult::success(content);
                result.structured_content = Some(answer.structured);
                result
            }
            // The model reads the refusal.
            Err(refusal) => CallToolResult::error(vec![ContentBlock::text(refusal.text())]),
        };
        Ok(result.into())
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        refuse_cursor(request)?;
        Ok(ListPromptsResult::with_all_items(prompts::descriptions()))
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
        let prompt = prompts::recall(request.arguments).map_err(to_error_data)?;
        Ok(prompt.into())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        let page = move |call: &Call<'_>| resources::list_page(call, cursor);
        self.call(context, "resources", page)
            .await
            .map_err(to_error_data)
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        refuse_cursor(request)?;
        let all = vec![resources::template()];
        Ok(ListResourceTemplatesResult::with_all_items(all))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let read = move |call: &Call<'_>| resources::read_session(call, &request.uri);
        let contents = self
            .call(context, "resources", read)
            .await
            .map_err(to_error_data)?;
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
        let complete_ids = move |call: &Call<'_>| Ok(resources::completions(call, &start));
        let (ids, total) = self
            .call(context, "resources", complete_ids)
            .await
            .map_err(to_error_data)?;
        let has_more = ids.len() < total;
        let total = u32::try_from(total).ok();
        let completion = CompletionInfo::with_pagination(ids, total, has_more)
            .map_err(|why| ErrorData::new(ErrorCode::INTERNAL_ERROR, why, None))?;
        Ok(CompleteResult::new(completion))
    }
}
